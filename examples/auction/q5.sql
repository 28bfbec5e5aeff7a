-- Q5, closing price: closing price and seller of each auction.
INCLUDE 'streams.sql';
INCLUDE 'closing_price.sql';

SELECT * FROM ClosingPriceStream;
