# needs: octave-cli
# debian: octave
# about: cells, strings and matrices, and its built-in tests
# stresses: small blocks of values, and arrays of some MB
# not shown: threads: there is one
source "$SUPPORT"
cat >work.m <<'M'
rand("seed", 7); randn("seed", 7);
c = cell(1, 20000);
for i = 1:20000, c{i} = sprintf("item %d", mod(i * 7919, 10007)); end
[u, ~, j] = unique(c); printf("%d %d\n", numel(u), sum(j));
s = struct(); for i = 1:4000, s.(sprintf("k%d", mod(i, 900))) = ones(1, mod(i, 50)); end
printf("%d\n", sum(structfun(@numel, s)));
m = reshape(mod((1:250000) * 7919, 1009), 500, 500) / 1009 + 9 * eye(500);
printf("%.6f\n", log10(abs(det(m))), norm(inv(m) * m - eye(500)) < 1e-8);
t = strjoin(c, ","); printf("%d %d\n", numel(t), numel(strsplit(t, ",")));
printf("%d\n", numel(regexprep(t, '(\d)(\d)', '$2$1')));
x = []; for i = 1:6000, x(end + 1) = i ^ 2; end, printf("%d\n", sum(x));
f = @(n) sum(primes(n)); printf("%d\n", f(200000));
a = sparse(mod(1:40000, 997) + 1, mod(1:40000, 983) + 1, 1:40000); printf("%d %.0f\n", nnz(a * a'), full(sum(a(:))));
m = containers.Map(); for i = 1:3000, m(sprintf("%d", mod(i, 700))) = i; end, printf("%d\n", m.Count);
try, error("keel:odd", "%s", repmat("x", 1, 1000)); catch e, printf("%d\n", numel(e.message)); end
M
# work:
source "$SUPPORT"
octave-cli --no-gui --norc --no-history --quiet work.m
# The interpreter's tests of its built-in functions, from its package.
for name in regexprep strsplit cellfun containers.Map num2str sortrows; do
    printf '%s ' "$name"
    octave-cli --norc --no-history --quiet --eval "[n, all] = test('$name', 'quiet'); printf('%d of %d\n', n, all);" 2>/dev/null | tail -n 1
done
