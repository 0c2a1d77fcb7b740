// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Solves every integer program of a directory with HiGHS, and writes name, hash and optimum (micro-dollars per hour) of each.
//   node solve.mjs DIRECTORY OUTPUT
import { createRequire } from "node:module";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const [dir, output] = process.argv.slice(2);
const require = createRequire(resolve(dir, "package.json"));
const load = require("highs");
const lines = [];
for (const file of readdirSync(dir).filter((f) => f.endsWith(".lp")).sort()) {
  const highs = await load(); // anew for each: a crash in one leaves its memory unusable
  const [name, hash] = file.split(".");
  const started = Date.now();
  const solution = highs.solve(readFileSync(join(dir, file), "utf8"), { mip_rel_gap: 0, mip_abs_gap: 0.5, mip_feasibility_tolerance: 1e-9 });
  if (solution.Status !== "Optimal") {
    throw new Error(`${file}: ${solution.Status}`);
  }
  const value = Math.round(solution.ObjectiveValue);
  if (Math.abs(value - solution.ObjectiveValue) > 0.01) {
    throw new Error(`${file}: ${solution.ObjectiveValue} is no whole number of micro-dollars`);
  }
  console.error(`${name} ${value} in ${Date.now() - started} ms`);
  lines.push(`${name} ${hash} ${value}`);
}
const head = `# The least cost of each problem of TestOptima in micro-dollars per hour, as HiGHS found it: name, hash of the integer program, optimum.
# Written by make optima.
`;
writeFileSync(output, head + lines.join("\n") + "\n");
