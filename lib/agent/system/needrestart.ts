/**
 * Keeps needrestart away from the machine. After an upgrade of a library it restarts every service that works with the
 * old one, on Ubuntu without a question: with the agent, svc-server would stop in the middle of the machine's work.
 */

import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import type { AgentSettings } from "../settings/settings.ts";
import type { Subsystem } from "../settings/subsystem.ts";
import { writeIfOther } from "./drop_in.ts";

const FOLDER = "/etc/needrestart";
export const NEEDRESTART_FILE = `${FOLDER}/conf.d/svc.conf`;

/** A piece of Perl, as all of its settings. */
const TEXT =
  `# Written by svc-agent or svc-server: an upgrade of a library must not stop the machine at any time.
$nrconf{override_rc}{qr(^svc-(agent|server)\\.service$)} = 0;
1;
`;

interface NeedrestartParts {
  readonly files: ReadFiles & WriteFiles;
  /** Prefix of the paths of the system's files, for tests. */
  readonly root?: string;
}

/** Tells needrestart, if it is there, to leave the services of the machine alone. */
export async function exceptFromNeedrestart({ files, root = "" }: NeedrestartParts): Promise<void> {
  if (await files.stat(`${root}${FOLDER}`)) await writeIfOther(files, `${root}${NEEDRESTART_FILE}`, TEXT);
}

/** It may be installed at any time, so each pass looks for it. */
export class Needrestart implements Subsystem {
  readonly name = "restarts after upgrades of libraries";

  constructor(private readonly parts: NeedrestartParts) {}

  async apply({ advanced }: AgentSettings): Promise<void> {
    if (!advanced.disableSystemConfiguration) await exceptFromNeedrestart(this.parts);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
