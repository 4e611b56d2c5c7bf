# needs: swipl
# debian: swi-prolog-nox
# about: queens, sets and strings
# stresses: stacks that grow by realloc
# not shown: small blocks: the terms are on the stacks
source "$SUPPORT"
cat >work.pl <<'PROLOG'
:- use_module(library(assoc)).
queens(N, Qs) :- numlist(1, N, Ns), select_all(Ns, [], Qs).
select_all([], Qs, Qs).
select_all(Ns, Acc, Qs) :- select(Q, Ns, Rest), safe(Q, 1, Acc), select_all(Rest, [Q|Acc], Qs).
safe(_, _, []).
safe(Q, D, [X|Xs]) :- Q =\= X + D, Q =\= X - D, D1 is D + 1, safe(Q, D1, Xs).
:- dynamic fact/2.
:- table path/2.
path(X, Y) :- edge(X, Y).
path(X, Y) :- path(X, Z), edge(Z, Y).
edge(X, Y) :- between(1, 90, X), Y is X * 7 mod 91.
main :-
    queens(18, Qs), writeln(Qs),
    forall(between(1, 80000, I), (atom_concat(key_, I, K), assertz(fact(K, I)))),
    aggregate_all(count, (fact(_, I), I mod 3 =:= 0), C), writeln(C),
    retractall(fact(_, _)),
    numlist(1, 30000, L), foldl([X, A, B]>>(put_assoc(X, A, X, B)), L, t, Assoc), assoc_to_keys(Assoc, Keys), length(Keys, Len), writeln(Len),
    aggregate_all(count, path(_, _), P), writeln(P),
    findall(S, (between(1, 40000, I), format(string(S), "item ~d", [I])), Ss), sort(0, @>=, Ss, [First|_]), writeln(First),
    atomic_list_concat(Ss, ',', A1), atom_length(A1, AL), writeln(AL),
    X is 3 ** 20000 mod 1000007, writeln(X),
    findall(T, (between(1, 6, N), thread_create((numlist(1, 50000, NL), msort(NL, SL), sum_list(SL, Sum), Sum > N), T)), Ts),
    forall(member(T, Ts), (thread_join(T, Status), writeln(Status))),
    garbage_collect_atoms, garbage_collect.
PROLOG
# work:
source "$SUPPORT"
swipl -q -g main -t halt work.pl </dev/null
