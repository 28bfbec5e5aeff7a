-- The price of every auction at the instant at which it closes, shared by q4 and q6.
--
-- Published: MAX(B.price) over auction and bid with
-- B.dateTime BETWEEN A.dateTime AND A.expires, over all auctions and bids so far; so state grows
-- for ever, and there is a price from the first bid on. Here a price is a fact of the instant of
-- closing: the bids of the last 20 seconds (no auction is open for longer) that were made after
-- the opening meet the auction when it closes, and nothing older is kept.

CREATE STREAM closing_price AS
  SELECT A.id, A.category, A.seller, MAX(B.price) AS final
  FROM closing_auction A, bid WINDOW(RANGE 20 SECONDS) B
  WHERE A.id = B.auction AND B.dateTime >= A.dateTime
  GROUP BY A.id, A.category, A.seller;
