"""The representations between the stages of the mock: shapes, loop IR, layouts, programs."""
