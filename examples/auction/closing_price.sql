-- The closing price and the seller of each auction, for Q5 and Q7.
CREATE STREAM CurrentPrice AS
  SELECT P.itemID, P.price, O.sellerID AS sellerID
  FROM ((SELECT itemID, bid_price AS price FROM Bid WINDOW(RANGE 2 DAYS))
        UNION ALL
        (SELECT itemID, start_price AS price FROM OpenAuction WINDOW(RANGE 2 DAYS))) P,
       ClosedAuction C,
       OpenAuction O WINDOW(RANGE 2 DAYS)
  WHERE P.itemID = C.itemID AND C.itemID = O.itemID;

CREATE STREAM ClosingPriceStream AS
  SELECT itemID, sellerID, MAX(P.price) AS price
  FROM CurrentPrice P
  GROUP BY P.itemID, P.sellerID;
