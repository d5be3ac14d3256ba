/**
 * The part of the published Kubernetes client that we use. Its own types bring another version of Node's types along,
 * which conflict with ours.
 */

export interface V1Job {
  apiVersion?: string;
  kind?: string;
  metadata?: { name?: string; uid?: string; labels?: Record<string, string> };
  spec?: {
    backoffLimit?: number;
    activeDeadlineSeconds?: number;
    ttlSecondsAfterFinished?: number;
    template: {
      metadata?: { labels?: Record<string, string> };
      spec: {
        restartPolicy?: string;
        automountServiceAccountToken?: boolean;
        enableServiceLinks?: boolean;
        hostUsers?: boolean;
        securityContext?: {
          runAsNonRoot?: boolean;
          runAsUser?: number;
          runAsGroup?: number;
          fsGroup?: number;
          seccompProfile?: { type: string };
        };
        containers: {
          name: string;
          image: string;
          command: string[];
          env: { name: string; value: string }[];
          resources?: { limits?: Record<string, string>; requests?: Record<string, string> };
          securityContext?: {
            privileged?: boolean;
            allowPrivilegeEscalation?: boolean;
            readOnlyRootFilesystem?: boolean;
            capabilities?: { drop?: string[] };
          };
          volumeMounts?: { name: string; mountPath: string; readOnly?: boolean }[];
        }[];
        volumes?: {
          name: string;
          emptyDir?: { sizeLimit?: string };
          secret?: { secretName: string; defaultMode?: number };
        }[];
      };
    };
  };
  status?: {
    active?: number;
    /** Pods that run and are ready. */
    ready?: number;
    succeeded?: number;
    conditions?: { type: string; status: string; reason?: string; message?: string }[];
  };
}

export interface V1Pod {
  metadata?: { name?: string };
  status?: {
    phase?: string;
    reason?: string;
    message?: string;
    conditions?: { type: string; status: string; reason?: string; message?: string }[];
    containerStatuses?: {
      state?: {
        waiting?: { reason?: string; message?: string };
        terminated?: { exitCode: number; reason?: string; message?: string };
      };
    }[];
  };
}

export interface V1Secret {
  apiVersion?: string;
  kind?: string;
  metadata?: {
    name?: string;
    labels?: Record<string, string>;
    ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string }[];
  };
  immutable?: boolean;
  stringData?: Record<string, string>;
}

interface Named {
  name: string;
  namespace: string;
}

export class BatchV1Api {
  createNamespacedJob(request: { namespace: string; body: V1Job }): Promise<V1Job>;
  readNamespacedJobStatus(request: Named): Promise<V1Job>;
  deleteNamespacedJob(request: Named & { propagationPolicy?: string }): Promise<unknown>;
}

export class CoreV1Api {
  createNamespacedSecret(request: { namespace: string; body: V1Secret }): Promise<unknown>;
  listNamespacedPod(
    request: { namespace: string; labelSelector?: string },
  ): Promise<{ items: V1Pod[] }>;
  readNamespacedPodLog(
    request: Named & { sinceSeconds?: number; timestamps?: boolean; limitBytes?: number },
  ): Promise<string>;
}

export class KubeConfig {
  loadFromFile(path: string): void;
  loadFromDefault(): void;
  makeApiClient<T>(api: new () => T): T;
}
