/**
 * The tour as a page. The machine's address is in its own, and it posts what it saw to where it came from: one JSON
 * object as of the other tours, or `{ failed }`.
 */

import * as sdk from "@viamrobotics/sdk";
import { tour } from "./tour.mjs";

const url = new URLSearchParams(location.search).get("machine");
const seen = await tour(sdk, url).catch((error) => ({ failed: String(error?.stack ?? error) }));
await fetch("/seen", { method: "POST", body: JSON.stringify(seen) });
