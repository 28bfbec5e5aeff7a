-- Query 14: calculation, with a function of one's own.
-- As published, but that count_char is a function in SQL and not in Java.
INCLUDE 'streams.sql';

CREATE FUNCTION count_char(s STRING, c STRING) RETURNS BIGINT
  RETURN LENGTH(s) - LENGTH(REPLACE(s, c, ''));

SELECT
  auction,
  bidder,
  0.908 * price AS price,
  CASE
    WHEN HOUR(dateTime) >= 8 AND HOUR(dateTime) <= 18 THEN 'dayTime'
    WHEN HOUR(dateTime) <= 6 OR HOUR(dateTime) >= 20 THEN 'nightTime'
    ELSE 'otherTime'
  END AS bidTimeType,
  dateTime,
  extra,
  count_char(extra, 'c') AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
