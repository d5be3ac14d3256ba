/**
 * Where the programs keep their files.
 */

export function homeFolder(env: (name: string) => string | undefined): string {
  return env("SVC_HOME") ?? env("VIAM_HOME") ?? `${env("HOME") ?? env("USERPROFILE") ?? "."}/.svc`;
}
