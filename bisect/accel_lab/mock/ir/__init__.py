"""The intermediate representations of the mock: shapes, loop IR, layouts, programs."""
