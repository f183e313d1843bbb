"""Fixtures of the integration tests are there, too: test/portable/run loads them."""

import os

import pytest
from image import IMAGES, Image


@pytest.fixture(params=IMAGES)
def image(workspace, request) -> Image:
    if os.geteuid() != 0:
        pytest.fail("root filesystems need root")
    return Image(workspace, request.param)
