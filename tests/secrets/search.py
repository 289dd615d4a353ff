# Looks for secrets in everything that a process can reach: environments, command lines and memory of all processes, and every
# file that was written since the secrets were made.
#
# Standard input is JSON: {"since": SECONDS, "masked": {NAME: HEX}, "below": [PATH], "everybody": BOOL}. The secrets in it are masked, because this process would
# find them in its own input otherwise; its own memory is all that it leaves out. Prints one line of JSON: what was found, as
# [name, form, place], and how much it has looked at.

import base64, json, os, re, stat, sys
from urllib.parse import quote

MASK = 0x5A
MOST = 512 << 20
PIECE = 8 << 20


def forms(secret):
    raw = secret.encode()
    percent = "".join("%%%02X" % byte for byte in raw)
    found = {
        "raw": raw,
        "hex": raw.hex().encode(),
        "HEX": raw.hex().upper().encode(),
        "percent": percent.encode(),
        "percent, lower case": percent.lower().encode(),
        "quoted": quote(secret, safe="").encode(),
        "utf-16": secret.encode("utf-16-le"),
        "utf-32": secret.encode("utf-32-le"),
        "json": "".join("\\u%04x" % byte for byte in raw).encode(),
        "backwards": raw[::-1],
    }
    # Whatever stands before and after a secret, these characters of its base64 stay.
    for before in range(3):
        skip = (before * 8 + 5) // 6
        text = base64.b64encode(b"\0" * before + raw)[skip:]
        keep = (len(raw) + before) * 8 // 6 - skip
        found["base64 +%d" % before] = text[:keep]
        found["base64url +%d" % before] = text[:keep].replace(b"+", b"-").replace(b"/", b"_")
    return found


def main():
    asked = json.load(sys.stdin)
    needles = {}
    for name, masked in asked["masked"].items():
        secret = bytes(byte ^ MASK for byte in bytes.fromhex(masked)).decode()
        for form, text in forms(secret).items():
            needles.setdefault(text, (name, form))
    pattern = re.compile(b"|".join(re.escape(text) for text in needles))
    longest = max(len(text) for text in needles)
    found, looked = set(), {"files": 0, "processes": 0, "memory": 0, "closed": []}

    def look(data, place):
        for hit in pattern.finditer(data):
            found.add((*needles[hit.group()], place))

    def stream(read, size, place):
        tail, at = b"", 0
        while at < size:
            piece = read(at, min(PIECE, size - at))
            if not piece:
                break
            look(tail + piece, place)
            tail = piece[-longest:]
            at += len(piece)
        return at

    def process(pid):
        looked["processes"] += 1
        for name in ("environ", "cmdline", "comm", "auxv"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    look(file.read(), f"/proc/{pid}/{name}")
            except OSError:
                looked["closed"].append(f"/proc/{pid}/{name}")
        if int(pid) == os.getpid():
            return
        try:
            memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
            with open(f"/proc/{pid}/maps") as file:
                ranges = [line.split() for line in file]
        except OSError:
            looked["closed"].append(f"/proc/{pid}/mem")
            return
        for words in ranges:
            start, end = (int(word, 16) for word in words[0].split("-"))
            # What is only a file is looked at as a file.
            if "r" not in words[1] or (len(words) > 5 and words[5].startswith("/") and "w" not in words[1]):
                continue
            try:
                looked["memory"] += stream(lambda at, size: os.pread(memory, size, start + at), end - start, f"/proc/{pid}/mem")
            except (OSError, OverflowError):
                continue
        os.close(memory)

    if asked["everybody"]:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    else:
        # A host has many: here the program that has started the search, and the shell between them.
        pids, pid = [], os.getpid()
        for _ in range(3):
            pids.append(str(pid))
            with open(f"/proc/{pid}/stat") as file:
                pid = int(file.read().rsplit(")", 1)[1].split()[1])
    for pid in pids:
        process(pid)
    for top in asked["below"]:
        for folder, folders, names in os.walk(top):
            if folder == "/":
                folders[:] = [name for name in folders if name not in ("proc", "sys")]
            for name in names + folders:
                look(os.fsencode(name), f"a name in {folder}")
            for name in names:
                path = os.path.join(folder, name)
                try:
                    about = os.lstat(path)
                    if stat.S_ISLNK(about.st_mode):
                        look(os.fsencode(os.readlink(path)), path)
                    # Older than the secrets, by a time that nobody but the kernel sets.
                    if not stat.S_ISREG(about.st_mode) or about.st_ctime < asked["since"]:
                        continue
                    with open(path, "rb") as file:
                        stream(lambda at, size: os.pread(file.fileno(), size, at), min(about.st_size, MOST), path)
                    looked["files"] += 1
                except OSError:
                    looked["closed"].append(path)
    print(json.dumps({"found": sorted(found), **looked}), flush=True)


main()
