-- Q7, average selling price by seller: over the last 10 auctions that each seller has closed.
INCLUDE 'streams.sql';
INCLUDE 'closing_price.sql';

SELECT sellerID, AVG(price)
FROM ClosingPriceStream WINDOW(PARTITION BY sellerID ROWS 10)
GROUP BY sellerID;
