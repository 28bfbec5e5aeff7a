-- Query 13: a join with a bounded side input.
--
-- Published: FOR SYSTEM_TIME AS OF the processing time. A table holds at every instant, so a plain
-- join says the same.
INCLUDE 'streams.sql';

SELECT B.auction, B.bidder, B.price, B.dateTime, S.value
FROM bid AS B JOIN side_input AS S ON MOD(B.auction, 10000) = S.key;
