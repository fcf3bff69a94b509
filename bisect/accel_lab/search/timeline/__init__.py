"""The version axis: releases, flips, metrics that become worse, and companions."""
