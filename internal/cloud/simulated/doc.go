// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package simulated is a cloud without machines: it takes launches and terminations over HTTP, keeps them in a durable journal,
// and after a while makes the Node object that a real machine's kubelet would have made. The sandbox launches from it, and so do
// the tests of providers; the product binary does not link it. Its protocol is cloud/machines.
//
// It never decides what to buy, knows nothing of NodePools or claims beyond the names it is given, and never touches Kubernetes
// but through NodeMaker, which its caller brings.
//
// Model (model.go, names.go, fault.go) is the cloud as a deterministic state machine: a call and the time in, a result and the
// records of what happened out; no clock, no I/O, no randomness but a hash of seed and machine id. Server (server.go, http.go,
// drive.go) puts it on a socket; Journal (journal.go) makes it outlive its process.
//
// A Guest is another interface to the same machines (cloud/aws/awstest): it chooses and describes them itself, and keeps what else
// it knows in the same journal.
//
// Invariants. A claim UID is launched at most once, for ever. What was answered is in the journal, on disk, before the answer
// leaves; what one call did is there whole or not at all. A journal replayed gives the same Model. Creating and deleting a Node
// are repeated until they succeed, so a machine that is terminated leaves no Node, whenever the process is killed. When the
// journal can't be written the server stops: memory must not run ahead of disk.
//
// Faults are for tests; they live in memory only, except what they did to a machine, which is the machine's fate.
//
// Start reading at Model.
package simulated
