# needs: emacs
# debian: emacs-nox
# about: a batch script over 20,000 lines
# stresses: Lisp data and buffers that grow
# not shown: Lisp's small objects: they are cut from larger blocks
source "$SUPPORT"
words 20000 4 >text
cat >work.el <<'LISP'
(require 'json)
(require 'cl-lib)
(defvar table (make-hash-table :test 'equal))
(with-temp-buffer
  (insert-file-contents "text")
  (goto-char (point-min))
  (while (re-search-forward "[a-z]+" nil t) (cl-incf (gethash (match-string 0) table 0)))
  (message "%S" (seq-take (sort (cl-loop for k being the hash-keys of table using (hash-values v) collect (cons v k))
                                (lambda (a b) (or (> (car a) (car b)) (and (= (car a) (car b)) (string< (cdr a) (cdr b)))))) 6))
  (sort-lines nil (point-min) (point-max))
  (goto-char (point-min))
  (dotimes (_ 2000) (insert "line\n") (forward-line 3) (upcase-word 1))
  (fill-region (point-min) (/ (point-max) 8))
  (message "%s" (secure-hash 'sha256 (current-buffer))))
(let ((data (cl-loop for i below 20000 collect `((id . ,i) (name . ,(format "item %d" (mod (* i 7919) 10007)))))))
  (let ((text (json-encode data)))
    (message "%d %s" (length text) (md5 text))
    (message "%d" (length (json-parse-string text)))))
(with-temp-buffer
  (insert-file-contents (locate-library "simple.el.gz" t))
  (emacs-lisp-mode)
  (message "forms %d" (cl-loop while (ignore-errors (read (current-buffer))) count t))
  (font-lock-ensure (point-min) 200000)
  (indent-region (point-min) 60000)
  (message "%s" (md5 (buffer-substring-no-properties (point-min) (point-max)))))
(garbage-collect)
(let ((deep nil)) (dotimes (i 300000) (push (make-string (mod i 50) ?x) deep)) (message "%d" (length deep)))
LISP
# work:
source "$SUPPORT"
emacs -Q --batch --eval '(setq jit-lock-defer-time nil)' -l work.el 2>&1
