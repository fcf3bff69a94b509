"""The version axis: releases, flips, metrics that regress, and companions."""
