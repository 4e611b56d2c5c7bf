-- Fills, sorts and searches a table: a program for programs.py.
create table t(a integer, b text);
with recursive c(x) as (select 1 union all select x+1 from c where x<400000)
  insert into t select x, hex(x*7919) from c;
create index i on t(b);
select count(*), sum(length(b)) from t where b like '3%' or a%7=0;
select group_concat(b) from (select b from t order by b desc limit 100000);
