-- Query 20: expand a bid with its auction, where the category is 10.
--
-- Published: bid JOIN auction, both without a window. Here a bid is expanded at its own instant
-- with an auction that was opened in the last 10 minutes; a bid on an auction that is not yet
-- there has none to be expanded with.
INCLUDE 'streams.sql';

SELECT
  B.auction, B.bidder, B.price, B.channel, B.url, B.dateTime AS bid_dateTime, B.extra AS bid_extra,
  A.itemName, A.description, A.initialBid, A.reserve, A.dateTime AS auction_dateTime, A.expires,
  A.seller, A.category, A.extra AS auction_extra
FROM bid AS B INNER JOIN auction WINDOW(RANGE 10 MINUTES) AS A ON B.auction = A.id
WHERE A.category = 10;
