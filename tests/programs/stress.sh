# Keel's multi-threaded stress test. Its requests and its output do not depend on the allocator.
# measured: no
source "$SUPPORT"
for seed in 11 12 13; do "$STRESS" --seed $seed --threads 4 --operations 200000; done
"$STRESS" --seed 14 --threads 32 --operations 20000
"$STRESS" --seed 15 --threads 1 --operations 300000
