-- Expressions over the columns of function_arguments.py, one a line.

-- conditions
coalesce(i4, i8)
coalesce(null, f4, i4)
coalesce(d, i4, 1.5)
coalesce(dt, ts)
coalesce(b, null)
nullif(i4, 7)
nullif(s, 'a')
nullif(i4, f8)
nvl2(s, i4, i8)
if(b, i4, f8)
if(i4 > 0, s, 'no')
nullif(s, u)
least(s, u)
greatest(d, i4, 2.5)
least(dt, nt, ts)
greatest(f4, i1)
nanvl(f8, 1)
nanvl(f4, f8)
case when i4 > 0 then 'p' when i4 < 0 then 'n' end
case i4 when 7 then s else u end
case when b then i4 when not b then d else i8 end
zeroifnull(d)
zeroifnull(f8)

-- numbers
round(f8, 2)
round(f8, 1)
round(f4, 2)
round(d, 1)
round(d, 5)
round(i4, 2)
round(w, 3)
bround(f8)
bround(f8, 0)
bround(i4, 1)
log(2, f8)
log(f8, 10)
pow(f8, 2)
pow(f8, 0.5)
pow(f8, g8)
pow(2, k)
atan2(f8, g8)
factorial(k)
mod(i8, i4)
mod(f8, g8)
mod(d, d5)
mod(i1, i2)
pmod(i4, i8)
pmod(i1, i1)
i4 div i1
i8 div i8
try_add(i4, i4)
try_add(f8, i1)
try_add(d, d)
try_subtract(i8, i4)
try_multiply(i4, i4)
try_multiply(i8, i8)
try_divide(i4, k)
try_divide(f8, g8)
try_divide(d, d5)
try_mod(i4, k)
try_mod(f8, g8)
shiftleft(i4, k)
shiftleft(i8, k)
shiftright(i4, k)
shiftright(i8, i4)
shiftrightunsigned(i4, k)
shiftrightunsigned(i8, i4)
getbit(i8, 3)
getbit(i4, 30)
getbit(i1, 6)
width_bucket(f8, 0, 10, 5)
width_bucket(f8, g8, 10, 5)
width_bucket(f8, 10, 0, q)

-- texts
concat_ws(',', s, u)
concat_ws(', ', s, ls, i4)
concat_ws('')
concat_ws('-', ls)
substring(s, 2)
substring(s, k)
substring(s, k, j)
substring(s, -2, 5)
substring(s, 0, 2)
substring(s, i4, i4)
substring(s, i4)
left(s, k)
right(s, k)
substr(s, 2, 1)
substring(s from 2 for 2)
left(s, i4)
right(s, i4)
trim(s)
trim(both 'x ' from s)
trim(leading 'a' from s)
trim(trailing from s)
trim(trailing 'cx' from s)
ltrim('a', s)
rtrim('c', s)
btrim(s, 'a ')
trim(u from s)
btrim(s, u)
ltrim(s, 'a')
rtrim(u, s)
lpad(s, k)
lpad(s, k, u)
rpad(s, k, u)
lpad(s, k, 'xy')
rpad(s, k, '')
repeat(s, k)
space(k)
replace(s, 'a', 'b')
replace(s, u, 'é')
replace(s, '', 'x')
replace(s, 'a')
replace(s, u, t)
translate(s, 'abc', 'é😀')
translate(s, u, 'xy')
translate(s, u, t)
instr(s, u)
instr(s, '')
locate(u, s)
locate('a', s, k)
locate(u, s, k)
locate('', s, k)
position('b' in s)
position('b', s, 2)
contains(s, u)
startswith(s, u)
endswith(s, u)
contains(s, '')
ascii(s)
chr(i4)
chr(q)
char(65)
levenshtein(s, u)
split_part(s, ',', 1)
split_part(s, ',', -1)
split_part(s, ',', 3)
split_part(s, 'b,', 2)
substring_index(s, ',', 2)
substring_index(s, ',', -1)
substring_index(s, 'a', -2)
substring_index(s, 'aa', 1)
overlay(s placing 'X' from 2)
overlay(s placing u from k)
overlay(s placing 'é' from 1 for 0)
overlay(s, u, k, j)
elt(k, s, u)
elt(1, s, u)
find_in_set(s, 'a,b,abc')
find_in_set(s, u)
encode(s, 'utf-8')
decode(y, 'UTF-8')
decode(encode(s, 'utf-8'), 'utf-8')
initcap(s)
reverse(li)
reverse(ls)
s || u
s || i4 || d
concat(s, i4, b)

-- patterns
s like 'a%'
s like '%b_'
s like 'x\\%\\_y'
s like 'x!%%' escape '!'
s not like '%a%'
s ilike 'A%'
s ilike '%É%'
s ilike 'ab_'
s like ''
s like '%'
s like '_'
s like '%\n%'
s rlike 'a'
s rlike '^a'
s rlike 'c$'
s rlike '^ab.cd$'
s rlike '[a-c]{2,}'
s rlike '(?i)école'
s rlike '(?i)[A-C]+'
s rlike '\\d+'
s rlike '^\\s*$'
s rlike '\\w\\W'
s rlike '[^a-z]'
s rlike 'a|b'
s rlike '(a|b)(c)?'
s rlike '.'
s rlike '[é😀]'
regexp_like(t, '^[+-]?[0-9]+$')
regexp(s, 'b')
s rlike '\\.'
s rlike 'a+?b'
s rlike '[\\d,]'
s rlike '[-a]'
regexp_extract(s, '([a-z]+)', 1)
regexp_extract(s, '([a-z]+)(\\d+)?', 2)
regexp_extract(s, '\\d', 0)
regexp_extract(t, '(\\d+)-(\\d+)')
regexp_replace(s, '[aeiou]', '*')
regexp_replace(s, '(\\w)(\\w)', '$2$1')
regexp_replace(s, '\\d+', '')
regexp_replace(s, 'b', '\\$')
regexp_count(s, 'a')
regexp_count(s, '[a-z]+')
regexp_count(t, '\\d')
regexp_substr(s, '[a-z]+')
regexp_extract_all(s, '(\\d+)', 1)
regexp_extract_all(s, '([a-z])([0-9])?', 2)
split(s, ',')
split(s, '[, ]')
split(s, 'a')
split(s, 'b+')
split(t, '\\.')

-- digests and bytes
md5(s)
md5(y)
sha1(s)
sha(y)
sha2(s, 256)
sha2(y, 0)
sha2(s, 224)
sha2(s, 384)
sha2(s, 512)
crc32(s)
crc32(y)
base64(s)
base64(y)
unbase64(base64(y))
unbase64(base64(s))
hex(i8)
hex(i4)
hex(s)
hex(y)
unhex(hex(y))
unhex(t)
unhex(s)

-- times
date_part('year', dt)
date_part('second', ts)
date_part('dow', nt)
extract(week from dt)
extract(yearofweek from dt)
extract(dow_iso from ts)
extract(doy from ts)
extract(hour from ts)
extract(minute from nt)
extract(second from nt)
extract(quarter from dt)
extract(month from ts)
extract(day from nt)
extract(year from ts)
extract(hour from dt)
extract(second from dt)
from_utc_timestamp(ts, 'Europe/Berlin')
from_utc_timestamp(ts, 'America/New_York')
from_utc_timestamp(nt, 'Asia/Kolkata')
from_utc_timestamp(dt, 'UTC')
date(from_utc_timestamp(ts, 'Australia/Lord_Howe'))
convert_timezone('UTC', 'Europe/Berlin', nt)
convert_timezone('UTC', 'America/Sao_Paulo', nt)
date_trunc('year', ts)
date_trunc('quarter', ts)
date_trunc('month', nt)
date_trunc('week', ts)
date_trunc('day', dt)
date_trunc('HOUR', ts)
date_trunc('minute', ts)
date_trunc('second', nt)
date_trunc('millisecond', ts)
date_trunc('microsecond', ts)
trunc(dt, 'year')
trunc(dt, 'MM')
trunc(ts, 'week')
trunc(dt, 'quarter')
next_day(dt, 'Mon')
next_day(ts, 'sunday')
next_day(dt, 'TH')
date_add(dt, k)
date_sub(ts, k)
dateadd(dt, 30)
datediff(dt, eu)
datediff(ts, dt)
date_diff(nt, eu)
add_months(dt, k)
add_months(ts, -13)
add_months(dt, 1)
add_months(dt, 12)
make_date(2026, k, j)
make_date(k, 1, 1)
make_date(i2, 2, 3)
make_timestamp(2026, 1, 2, k, j, 5.25)
make_timestamp_ntz(2026, k, j, 3, 4, 60)
make_timestamp(2026, 1, j, k, 0, d)
make_timestamp(1, 1, 1, 0, 0, 0)
date_from_unix_date(k)
date_from_unix_date(i2)
timestamp_seconds(q)
timestamp_seconds(i8)
timestamp_millis(q)
timestamp_millis(i8)
timestamp_micros(q)
date_format(ts, 'yyyy-MM-dd HH:mm:ss')
date_format(nt, 'yyyy-MM-dd\'T\'HH:mm:ss.SSS')
date_format(dt, 'd.M.y')
date_format(ts, 'EEE, d MMM yyyy hh:mm a')
date_format(dt, 'EEEE MMMM yy')
date_format(dt + i2, 'EEEE MMMM yy')
date_format(ts, 'h H m s S SSSSSS')
date_format(dt, 'yyyyMMdd')
from_unixtime(q)
from_unixtime(q, 'yyyy')
to_date(t)
to_date(ts)
to_timestamp(t)
to_timestamp(dt)
to_timestamp_ntz(t)
try_to_timestamp(t)
try_to_date(t)
to_timestamp(nt)
to_date(t, 'yyyy-MM-dd')
try_to_timestamp(t, 'yyyy-MM-dd HH:mm:ss')
try_to_timestamp(t, 'yyyyMMdd')
try_to_date(t, 'dd/MM/yyyy')
try_to_timestamp(t, 'yyyy-M-d')
to_timestamp(t, 'yyyy-MM-dd')
unix_timestamp(ts)
to_unix_timestamp(dt)
to_unix_timestamp(nt)
ts + interval 1 day
ts - interval 90 minutes
nt + interval 1 month
dt + interval 1 month
dt - interval 2 days
dt + interval 3 hours
ts + interval 1 year
nt - interval 13 months
ts + interval '1 2:03:04' day to second
dt + 5
dt - 5
dt + i2
5 + dt
ts - nt > interval 1 day
ts - nt
ts - ts = interval 0 seconds
dt + interval 1 week
ts + interval 1.5 seconds
ts + interval 1 day 2 hours
nt + interval 100 milliseconds
interval 1 day > interval 23 hours
- interval 1 day + ts

-- arrays, maps, structs
array(i4, i8)
array(s, null)
array(1, 2.5)
array(li, li)
size(li)
size(m)
cardinality(ls)
array_size(lf)
element_at(li, 1)
element_at(li, -1)
element_at(ls, k)
element_at(m, 'a')
element_at(m, s)
try_element_at(li, j)
try_element_at(m, s)
get(li, 0)
get(ls, k)
li[0]
ls[k]
m['a']
m[s]
ll[0]
array_contains(li, 1)
array_contains(ls, s)
array_contains(lf, f8)
array_contains(li, i4)
array_position(li, 1)
array_position(ls, s)
array_position(lf, f8)
array_remove(li, 7)
array_remove(ls, s)
array_remove(lf, f8)
array_append(li, i4)
array_append(ls, s)
array_prepend(ls, s)
array_prepend(ll, li)
array_join(ls, ',')
array_join(ls, ',', '?')
array_join(ls, '', s)
flatten(ll)
slice(li, 1, 2)
slice(ls, -2, 2)
slice(li, j, 2)
slice(lf, k, k)
sort_array(li)
sort_array(ls, false)
sort_array(lf)
sort_array(lf, false)
sort_array(ls, true)
sequence(1, k)
sequence(i1, j)
sequence(k, k)
array_repeat(s, j)
array_repeat(i4, k)
map_keys(m)
map_values(m)
map_contains_key(m, 'a')
map_contains_key(m, s)
p.x
p.name
p.NAME || 'x'
named_struct('a', i4, 'b', s)
struct(i4, s as name, 1)
struct(p.x, i4 + 1)
named_struct('a', named_struct('b', s)).a.b
transform(li, e -> e + 1)
transform(ls, e -> upper(e))
transform(ll, e -> size(e))
filter(li, e -> e > 1)
filter(ls, e -> e is not null)
exists(li, e -> e > 2)
forall(li, e -> e > 0)
forall(ls, e -> e <> 'b')
exists(lf, e -> isnan(e))
transform(ll, a -> transform(a, e -> e * 2))
transform(li, e -> e + k)

-- comparisons and logic
i4 in (1, 7, i1)
i4 in (1, null)
s in ('a', 'abc')
f8 in (1, 2.5)
d in (1, 2.5)
dt in (date '2026-11-15')
i4 not in (1, 2)
t in (1, 12)
f8 in (0.0D, cast('NaN' as double))
b and i4 > 0
b or i4 > 0
not b
b and null
b or null
i4 between i1 and i2
s between 'a' and 'b'
i4 is null
s is not null
b is true
b is not false
b is null
i4 <=> i8
s <=> u
f8 <=> g8
null <=> i4
i4 is distinct from i1
li = li
li = array(1, null)
li <> array(7, 7, -1)
(i4 > 0) = b
i4 > '3'
'1' = i4
f8 = '1'
dt = '2026-11-15'
ts > '2026-01-01'
k <> 0 and i4 / k > 1
k = 0 or i4 % k = 0
if(k = 0, 0, i4 div k)
coalesce(i4 / nullif(k, 0), 0)
case when k <> 0 then i4 / k end

-- operators
~i4
~i1
i4 & i8
i1 | i2
i4 ^ i4
i8 & 3
i4 << 2
i8 >> 3
-i4
-f8
-d
- - i4
+i4
-i1
i4 + 1
i8 - 1
1 - i1
i4 * 2.5
d * 2
d / 3
d / d5
d5 / d
i4 / 2
f8 / 2
d + 1.5
d - d5
d * d
d5 * d5
d % 3
w + 1
w * 2
d + i8
i4 + t
f8 + t
d / 0
i4 / 0
f8 % 0
i4 % 0
null + i4
i4 / null
1 / 3
1.0 / 3
2 * 3
7 div 2
-7 % 3
0.1 + 0.2
1e2 + 1

-- constants
'it''s'
'a\nb\tc\\d'
"dq"
r'\d'
x'1F2e'
1L
1.5D
2.50
.5
1e3
2147483648
-2147483648
99999999999999999999
true
null
date '2026-02-28'
timestamp '2026-01-05 03:04:05'
timestamp_ntz '2026-01-05 03:04:05.5'
'a' 'b'
5Y
5S
1.5F
2.5BD
