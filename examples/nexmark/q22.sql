-- Query 22: the folders of the url.
-- As published; SPLIT_PART counts from 1 and not from 0.
INCLUDE 'streams.sql';

SELECT
  auction, bidder, price, channel,
  SPLIT_PART(url, '/', 4) AS dir1,
  SPLIT_PART(url, '/', 5) AS dir2,
  SPLIT_PART(url, '/', 6) AS dir3
FROM bid;
