"""Input of a program of one thread that several benchmarks run: the same calls in every run."""

SQL = (
    "create table t(a integer primary key, b text);"
    "with recursive n(i) as (select 1 union all select i+1 from n where i < 60000)"
    " insert into t select i, hex(zeroblob(i % 400)) from n;"
    "select count(*) from (select b, count(*) from t group by b order by 2);"
    "delete from t where a % 3 = 0; select sum(length(b)) from t;"
)
