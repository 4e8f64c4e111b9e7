#!/usr/bin/python3
"""The plots of bench/run: what is drawn is what was given."""
import os
import re
import sys
import unittest
import xml.dom.minidom

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import curve_plot  # noqa: E402  (needs the path above)


def lines_of(drawing):
    """The points of each curve, in the legend's order."""
    return [[tuple(map(float, pair.split(","))) for pair in points.split()] for points in re.findall(r'<polyline[^>]* points="([^"]*)"', drawing)]


class CurvePlot(unittest.TestCase):
    def draw(self, series, **options):
        drawing = curve_plot.svg("title", "x", "y", series, **options)
        xml.dom.minidom.parseString(drawing)
        return drawing

    def test_a_higher_value_is_drawn_higher_and_a_later_one_further_right(self):
        (first, second, third), = lines_of(self.draw({"a": [(0, 1.0), (5, 3.0), (10, 2.0)]}))
        self.assertLess(first[0], second[0])
        self.assertLess(second[0], third[0])
        self.assertLess(second[1], third[1])  # pixels count downwards
        self.assertLess(third[1], first[1])

    def test_with_powers_each_doubling_is_as_wide_as_the_next(self):
        points, = lines_of(self.draw({"a": [(1, 1.0), (2, 1.0), (4, 2.0), (8, 2.0)]}, powers=True))
        widths = [b[0] - a[0] for a, b in zip(points, points[1:])]
        self.assertLess(max(widths) - min(widths), 0.3, widths)

    def test_every_curve_is_inside_the_frame(self):
        curves = lines_of(self.draw({"a": [(3, -7.5), (4, 12.25)], "b": [(1, 0.001), (9, 40.0)]}))
        self.assertEqual([2, 2], [len(points) for points in curves])
        for x, y in (point for points in curves for point in points):
            self.assertTrue(curve_plot.LEFT <= x <= curve_plot.WIDTH - curve_plot.RIGHT, x)
            self.assertTrue(curve_plot.TOP <= y <= curve_plot.HEIGHT - curve_plot.BOTTOM, y)

    def test_ticks_are_round_and_reach_around_the_values(self):
        for low, high in ((0, 95), (1.83, 5.5), (3, 3), (-2, 0.5), (0.0011, 0.0017), (0, 0)):
            ticks = curve_plot.round_ticks(low, high)
            self.assertLessEqual(ticks[0], low)
            self.assertGreaterEqual(ticks[-1], high)
            self.assertTrue(2 <= len(ticks) <= 8, ticks)

    def test_what_has_no_value_is_left_out_and_names_are_escaped(self):
        drawing = self.draw({"a < b & c": [(1, None), (2, 5.0), (3, 6.0)], "nothing": [(1, None)]})
        self.assertEqual([2], [len(points) for points in lines_of(drawing)])
        self.assertIn("a &lt; b &amp; c", drawing)
        self.assertNotIn("nothing", drawing)

    def test_a_plot_without_a_point_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no point"):
            self.draw({"a": [], "b": [(1, None)]})


if __name__ == "__main__":
    unittest.main()
