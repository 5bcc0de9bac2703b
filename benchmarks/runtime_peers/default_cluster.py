"""Writes the folder of a cluster as `causalcast up` makes it: CLUSTER.json in, folder out."""

import json
import sys
from pathlib import Path

from causalcast.runtime.operating.local_cluster import ClusterPlan, LocalCluster

if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    folder = Path(wanted["folder"])
    LocalCluster(folder, ClusterPlan(**wanted["plan"]))
    for path in folder.glob("node-*/node.toml"):
        text = path.read_text()
        for before, after in wanted["changes"]:
            assert before in text, f"{before!r} is not in {path}"
            text = text.replace(before, after)
        path.write_text(text)
    (folder / "work.json").write_text(json.dumps(wanted["work"]))
