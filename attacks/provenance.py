"""Where do figures come from? The command, the commit and the date that stand beside them."""

import datetime
import subprocess


def provenance(command: str) -> dict[str, str]:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True)
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    return {"command": command, "commit": done.stdout.strip(), "date": today}
