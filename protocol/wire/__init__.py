"""How values become bytes and back: ids, canonical msgpack, envelopes, limits, errors."""
