-- Query 2: selection.
-- As published.
INCLUDE 'streams.sql';

SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0;
