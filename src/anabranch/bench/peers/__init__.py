"""The same three jobs here, in Spark, in Flink SQL, in Pathway and in Bytewax."""
