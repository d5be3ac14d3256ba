/**
 * Where the programs keep their files.
 */

/** An empty variable counts as not set: its folder would be the root of the system. */
export function homeFolder(env: (name: string) => string | undefined): string {
  return env("SVC_HOME") || env("VIAM_HOME") || `${env("HOME") || env("USERPROFILE") || "."}/.svc`;
}
