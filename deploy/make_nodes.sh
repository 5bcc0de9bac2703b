#!/bin/sh
# Folders of three nodes for containers: node.toml and identity of each, and the authority, whose key
# belongs nowhere near them. Needs the command `causalcast`.
#
#   deploy/make_nodes.sh FOLDER [NAMES]    NAMES: how node 1, 2, 3 are called, with %d for its number
#
# For compose.yaml:      deploy/make_nodes.sh nodes
# For kubernetes.yaml:   deploy/make_nodes.sh nodes causalcast-%d.causalcast, and what stands there
set -eu
folder=$1
names=${2:-node-%d}
first=1
case $names in *.*) first=0 ;; esac # Kubernetes counts from 0
name() { printf "$names" $(($1 - 1 + first)); }

causalcast keys init "$folder/authority" --cluster shop
for id in 1 2 3; do
  node="$folder/node-$id"
  causalcast keys node "$folder/authority" --id $id --out "$node/identity"
  cat >"$node/node.toml" <<TOML
[node]
id = $id
listen = "0.0.0.0:7400"
advertise = "$(name $id):7400"

[cluster]
name = "shop"
peers = { 1 = "$(name 1):7400", 2 = "$(name 2):7400", 3 = "$(name 3):7400" }

[protocol]
name = "vector_clock_broadcast"

[groups]
orders = "*"

[storage]
path = "data"

[metrics]
listen = "0.0.0.0:9464" # probes ask here; no password, so publish this port nowhere

[clients]
listen = "0.0.0.0:7500"
TOML
done
