/**
 * A device for tests: an agent from source in a folder of its own, with a control plane that has releases for it.
 */

import { SystemFiles } from "../../lib/base/files/system_files.ts";
import { askRollback, socketOf } from "../../lib/agent/control/control.ts";
import type { BinaryName } from "../../lib/agent/update/release.ts";
import { SystemClock } from "../../lib/base/clock.ts";
import { type CloudProcess, type Example, serveCloud, svcCloud } from "../cloud/program.ts";
import { AgentProcess } from "./agent_process.ts";
import { buildRelease, type Kind } from "./test_release.ts";

export class TestDevice extends AgentProcess {
  private constructor(
    folder: string,
    readonly cloud: CloudProcess,
    readonly example: Example,
  ) {
    super(folder);
  }

  /** A device and its cloud, which wants nothing of it yet. The agent does not run. */
  static async make(): Promise<TestDevice> {
    const folder = await Deno.makeTempDir({ prefix: "svc-agent-" });
    const data = ["--data", `${folder}/data`];
    const example: Example = JSON.parse(await svcCloud("init", ...data, "--json"));
    const cloud = await serveCloud(data);
    const device = new TestDevice(folder, cloud, example);
    await device.writeCredentials({ ...example.config.cloud, app_address: cloud.url, id: example.partId });
    await device.configure({});
    return device;
  }

  async svcCloud(...args: string[]): Promise<string> {
    return await svcCloud(...args, "--data", `${this.folder}/data`);
  }

  /** Sets the `agent` section of the cloud's configuration. */
  async configure(agent: Record<string, unknown>): Promise<void> {
    const path = `${this.folder}/config.json`;
    await Deno.writeTextFile(path, JSON.stringify({ network: { bind_address: "localhost:0" }, agent }));
    await this.svcCloud("config", "set", this.example.partId, path);
  }

  /** Makes a version of svc-server and puts it into the stable channel. */
  async release(version: string, kind: Kind): Promise<void> {
    const program = `${this.folder}/svc-server-${version}`;
    await buildRelease(program, version, kind);
    await this.svcCloud("release", "publish", "svc-server", version, program, "--channel", "stable");
  }

  rollback(name: BinaryName): Promise<void> {
    return askRollback(new SystemFiles(), socketOf(this.base, "linux"), name, new SystemClock());
  }

  /** Ends everything, also where a test has failed half-way. */
  async close(): Promise<void> {
    await this.end();
    await this.cloud.stop();
    await Deno.remove(this.folder, { recursive: true });
  }
}
