-- Query 10: log to a file system.
--
-- Published: the rows go to a folder that is partitioned by day and minute. The query is the same;
-- where rows go is said where it is started (anabranch run q10.sql --to log/).
INCLUDE 'streams.sql';

SELECT
  auction, bidder, price, dateTime, extra,
  DATE_FORMAT(dateTime, 'yyyy-MM-dd') AS dt, DATE_FORMAT(dateTime, 'HH:mm') AS hm
FROM bid;
