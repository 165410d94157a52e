"""Tests the function on this machine, with or without a GPU:

    python3 -m unittest discover -s DIRECTORY
"""

import unittest

from main import main


class TestMain(unittest.TestCase):
    def test_norm(self):
        self.assertAlmostEqual(main({"numbers": [3, 4]})["norm"], 5)

    def test_wrong_parameter(self):
        self.assertIn("numbers", main({"numbers": "three"})["error"])


if __name__ == "__main__":
    unittest.main()
