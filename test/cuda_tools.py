"""cuda_tools.py REQUIREMENTS FOLDER: puts ptxas and nvdisasm into a folder.

ptxas and nvdisasm come from the wheels of REQUIREMENTS; no other file of the wheels is
unpacked. A failure prints a message and is no error: tests that need the two programs are
skipped, and the next build tries again.
"""

import pathlib
import subprocess
import sys
import tempfile
import zipfile

TOOLS = {"ptxas", "nvdisasm"}


def unpack(wheel, folder):
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            name = pathlib.PurePath(member)
            if name.parent.name == "bin" and name.name in TOOLS:
                (folder / name.name).write_bytes(archive.read(member))
                (folder / name.name).chmod(0o755)


def main():
    requirements, folder = map(pathlib.Path, sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ready").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
        command += ["--disable-pip-version-check", "--retries=1", "--timeout=10"]
        command += ["--dest", scratch, "-r", requirements]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        for wheel in pathlib.Path(scratch).glob("*.whl"):
            unpack(wheel, folder)
    missing = sorted(tool for tool in TOOLS if not (folder / tool).exists())
    if missing or done.returncode:
        reason = done.stderr.strip().splitlines() or ["not in the wheels"]
        tools = " and ".join(missing)
        print(f"cuda_tools.py: no {tools}: {reason[-1]}", file=sys.stderr)
        return
    (folder / "ready").touch()


main()
