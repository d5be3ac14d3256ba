/** A device file that does only what a test gives it. */

import { SvcError } from "../../lib/base/error.ts";
import type { Device } from "../../lib/base/host.ts";

/** Everything but `parts` is refused. */
export function bareDevice(path: string, parts: Partial<Device>): Device {
  const refused = (): never => {
    throw new SvcError("unimplemented", `${path} is bare`);
  };
  return {
    path,
    file: -1,
    control: refused,
    tell: refused,
    follow: refused,
    adopt: refused,
    lock: () => true,
    map: refused,
    read: refused,
    write: refused,
    readable: refused,
    urgent: refused,
    close: () => {},
    ...parts,
  };
}
