"""Where do figures come from? The command, the commit and the date that stand beside them."""

import datetime
import subprocess
import sys


def provenance(module: str) -> dict[str, str]:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True)
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return {"command": " ".join([f"python -m {module}", *sys.argv[1:]]), "commit": done.stdout.strip(), "date": today}
