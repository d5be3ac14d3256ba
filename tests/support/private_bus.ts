/**
 * A private message bus for a test: a real dbus-daemon, and scripted services on it.
 */

import { SystemClock } from "../../lib/base/clock.ts";
import { type Bus, openBus } from "../../lib/base/bus/bus.ts";
import { DenoHost } from "../../lib/base/host_deno.ts";
import { type Needed, outputOf } from "./needing.ts";

const CONF = (socket: string) =>
  `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type><listen>unix:path=${socket}</listen><auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_destination="*"/><allow receive_sender="*"/>
  </policy>
</busconfig>
`;

/** Whether a bus can run here. */
export async function busDaemon(): Promise<Needed<true>> {
  const found = await outputOf("dbus-daemon", "--version") !== undefined;
  return found ? { found: true } : { missing: "dbus-daemon does not run here" };
}

export class PrivateBus {
  private constructor(
    private readonly folder: string,
    private readonly daemon: Deno.ChildProcess,
    readonly host: DenoHost,
  ) {}

  static async start(): Promise<PrivateBus> {
    const folder = await Deno.makeTempDir();
    const socket = `${folder}/bus`;
    await Deno.writeTextFile(`${folder}/bus.conf`, CONF(socket));
    const daemon = new Deno.Command("dbus-daemon", {
      args: [`--config-file=${folder}/bus.conf`, "--nofork", "--print-address"],
      stdin: "null",
      stdout: "piped",
      // It tells of each limit that it keeps.
      stderr: "null",
    }).spawn();
    // The address is printed once it listens.
    const reader = daemon.stdout.getReader();
    await reader.read();
    await reader.cancel();
    const host = new DenoHost();
    host.env = (name) => name === "DBUS_SYSTEM_BUS_ADDRESS" ? `unix:path=${socket}` : Deno.env.get(name);
    return new PrivateBus(folder, daemon, host);
  }

  /** A separate connection. */
  async open(): Promise<Bus> {
    return await openBus(this.host, new SystemClock());
  }

  /** A connection with a service's name. */
  async own(name: string): Promise<Bus> {
    const bus = await this.open();
    const daemon = "org.freedesktop.DBus";
    await bus.call({
      destination: daemon,
      path: "/org/freedesktop/DBus",
      interface: daemon,
      member: "RequestName",
      signature: "su",
      args: [name, 0],
    });
    return bus;
  }

  async stop(): Promise<void> {
    this.daemon.kill("SIGTERM");
    await this.daemon.status;
    await Deno.remove(this.folder, { recursive: true });
  }
}
