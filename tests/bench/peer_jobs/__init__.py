"""The jobs of `anabranch bench peers`, each engine in a process and environment of its own."""
