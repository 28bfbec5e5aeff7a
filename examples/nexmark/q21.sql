-- Query 21: add the id of the channel.
-- As published, but that REGEXP_EXTRACT gives an empty text and not NULL where nothing is found.
INCLUDE 'streams.sql';

SELECT
  auction, bidder, price, channel,
  CASE
    WHEN LOWER(channel) = 'apple' THEN '0'
    WHEN LOWER(channel) = 'google' THEN '1'
    WHEN LOWER(channel) = 'facebook' THEN '2'
    WHEN LOWER(channel) = 'baidu' THEN '3'
    ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)
  END AS channel_id
FROM bid
WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) <> '' OR
      LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu');
