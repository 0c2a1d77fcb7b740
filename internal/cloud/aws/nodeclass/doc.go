// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package nodeclass resolves EC2NodeClasses to the objects of the account: subnets, security groups, AMIs, capacity
// reservations, the placement group, the instance profile, and the cluster settings that an instance needs to join. It
// writes the status of the class, and the user data of instances.
//
// It launches nothing and reads no prices. It creates only the instance profile of a class with a role, and deletes it
// with the class. A configuration error is reported as a condition of the class; an error means that a call failed and
// can be retried. Equal classes and registrations give equal user data. Start reading at Resolver.Resolve and Resolved,
// then Resolved.WriteUserData.
package nodeclass
