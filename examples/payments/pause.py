"""Points at which the demonstration and the tests stop a program, to kill it or something else right there.

Without PAUSE_FOLDER in the environment, a point does nothing. With it, whoever wants a program to stop at a
point creates a file of the point's name in that folder. The program renames the file to `<point>.reached` and
goes on when that is deleted. Each file stops one passage only.
"""

import os
import time


def pause(point: str) -> None:
    folder = os.environ.get("PAUSE_FOLDER")
    if not folder:
        return
    reached = os.path.join(folder, f"{point}.reached")
    try:
        os.rename(os.path.join(folder, point), reached)
    except FileNotFoundError:
        return
    while os.path.exists(reached):
        time.sleep(0.01)
