"""What tensors travel as (docs/wire_format.md), and which encoding to take."""
