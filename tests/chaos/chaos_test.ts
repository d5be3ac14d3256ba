/** Any of three control planes may be killed while it is written to: see `deno task chaos:cloud` for more kills. */

import { assertGreater } from "@std/assert";
import { needingTest } from "../support/needing.ts";
import { neededPostgres } from "../support/postgres.ts";
import { runChaos } from "./chaos.ts";

const KILLS = 5;
const SEED = 20_261_128;

needingTest(
  "five kills among three control planes under load lose and double nothing acknowledged",
  neededPostgres(),
  async () => {
    const options = {
      kills: KILLS,
      seed: SEED,
      lifeWrites: 20,
      withPipeline: false,
      withShared: false,
      print: () => {},
    };
    const { repeated, notices, packages } = await runChaos(options);
    for (const count of [repeated, notices, packages]) assertGreater(count, 0);
  },
);
