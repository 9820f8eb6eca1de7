"""Compiled inner loops: functions over arrays, no classes, no checks.

Each handles the items ``start <= i < stop`` of a batch; :mod:`fenchel._core.parallel` drives them.
"""
