# needs: Rscript
# debian: r-base-core
# about: data frames, strings, sorting and models
# stresses: vectors of all sizes; the collector frees in sweeps
# not shown: small vectors: they are cut from pages
source "$SUPPORT"
cat >work.R <<'R'
set.seed(7)
n <- 120000
frame <- data.frame(id = 1:n, group = sample(letters, n, TRUE), x = rnorm(n), y = runif(n))
print(aggregate(cbind(x, y) ~ group, frame, function(v) round(mean(v), 6))[1:5, ])
print(round(coef(lm(y ~ x + group, frame))[1:4], 6))
text <- paste0("item ", (1:80000 * 7919) %% 10007, collapse = ",")
parts <- strsplit(text, ",")[[1]]
print(head(sort(table(parts), decreasing = TRUE), 4))
print(nchar(gsub("([0-9])([0-9])", "\\2\\1", text)))
m <- matrix(rnorm(160000), 400)
print(round(sum(abs(solve(m) %*% m - diag(400))) < 1e-6))
lists <- lapply(1:60000, function(i) list(id = i, name = paste("n", i), values = seq_len(i %% 20)))
print(sum(sapply(lists, function(l) length(l$values))))
e <- new.env()
for (i in 1:60000) assign(paste0("k", i %% 9000), rep(i, i %% 30), envir = e)
print(sum(sapply(ls(e), function(k) length(get(k, envir = e)))))
for (i in 1:30) { v <- numeric(0); for (j in 1:300) v <- c(v, j * i) }
print(sum(v))
invisible(gc())
big <- sort(runif(1e6)); print(round(sum(big[c(1, 5e5, 1e6)]), 6))
print(summary(merge(frame[1:20000, ], frame[10001:30000, ], by = "id")$x.x))
R
# work:
source "$SUPPORT"
Rscript --vanilla work.R
