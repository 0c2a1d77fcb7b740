// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// ProviderIDPrefix is the prefix of every provider ID; zone and machine ID follow.
const ProviderIDPrefix = "machines:///"

func providerID(zone, id string) string { return ProviderIDPrefix + zone + "/" + id }

// hash is the source of everything that looks random here: the same words, the same bits, in every process.
func hash(words ...string) [sha256.Size]byte {
	h := sha256.New()
	for _, w := range words {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(w))))
		h.Write([]byte(w))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// machineID is made of the claim's UID alone, so a launch repeated after the loss of everything else names the same machine.
func machineID(claimUID string) string {
	h := hash("machine", claimUID)
	return "i-" + hex.EncodeToString(h[:])[:17]
}

// nodeName is the n-th choice of a name for a machine's Node, in the manner of EC2: a private address. There are 16 million, so
// among thousands some meet; the caller takes the first choice that is free.
func nodeName(id string, n int) string {
	h := hash("node", id, strconv.Itoa(n))
	return fmt.Sprintf("ip-10-%d-%d-%d.ec2.internal", h[0], h[1], h[2])
}

// jitter spreads a duration by ±10 %, the same for the same seed and machine.
func jitter(seed int64, id string, d time.Duration) time.Duration {
	h := hash("boot", strconv.FormatInt(seed, 10), id)
	permille := int64(binary.BigEndian.Uint64(h[:])%201) - 100
	return d + time.Duration(int64(d)/1000*permille)
}
