/**
 * The files that clients may upload with `UploadDataFromPath`: those in folders that the configuration names, and the
 * data of modules. Never the configuration, keys and state of the programs themselves.
 */

import { isAbsolute, join } from "node:path";
import { fileNameFrom } from "../../base/files/names.ts";
import { type PathRules, SYSTEM_VIEWS } from "../../base/files/path_rules.ts";
import type { MachineConfig } from "./config.ts";

/** Files of the agent, where its installer puts them. */
const AGENT_FILES = ["/etc/svc.json", "/etc/svc-defaults.json", "/opt/svc"];
const SETTING = "additional_upload_paths of a data_manager service names more folders";

export interface UploadSurroundings {
  /** The program's home folder. */
  readonly home: string;
  /** The file that the program reads its configuration from. */
  readonly configPath: string;
  /** The folders that the data managers allow. */
  readonly allowed: readonly string[];
}

export function uploadRulesOf(
  config: MachineConfig | undefined,
  { home, configPath, allowed }: UploadSurroundings,
): PathRules {
  const { tlsCertFile, tlsKeyFile } = config?.network ?? {};
  const tokenKeys = config?.auth.tokenKeysFile;
  const files = [tlsCertFile, tlsKeyFile, tokenKeys && atHome(tokenKeys, home)];
  return {
    folders: [...allowed, moduleDataFolder(home, config?.cloud?.id)],
    own: [configPath, home, ...AGENT_FILES, ...SYSTEM_VIEWS, ...files.flatMap((path) => path ? [path] : [])],
    setting: SETTING,
  };
}

/** The folder with the data of all modules of a machine part. */
export function moduleDataFolder(home: string, partId = "local"): string {
  return join(home, "module-data", fileNameFrom(partId));
}

/** A relative path begins in the program's home folder. */
export function atHome(path: string, home: string): string {
  return isAbsolute(path) ? path : join(home, path);
}
