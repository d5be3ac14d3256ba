/** How a device gets a machine's credentials. Pure. */

import { shellWord } from "../../../base/escape.ts";

export interface DeviceCredentials {
  /** The control plane. */
  readonly address: string;
  readonly partId: string;
  readonly id: string;
  readonly key: string;
}

/** One line for a shell of the device. */
export function installLine({ address, partId, id, key }: DeviceCredentials): string {
  const values = { SVC_API_KEY_ID: id, SVC_API_KEY: key, SVC_PART_ID: partId };
  const words = Object.entries(values).map(([name, value]) => `${name}=${shellWord(value)}`);
  const names = Object.keys(values).join(",");
  return `curl -fsSL ${shellWord(`${address}/install.sh`)} | ${
    words.join(" ")
  } sudo --preserve-env=${names} sh`;
}

/** The file of a machine whose configuration comes from the control plane. */
export function machineFile({ address, partId, id, key }: DeviceCredentials): string {
  return JSON.stringify({ cloud: { app_address: address, id: partId, api_key: { id, key } } }, null, 2);
}
