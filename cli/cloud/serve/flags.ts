/** The flags of `svc-cloud serve`: loads nothing of the control plane, so that help and other commands start fast. */

import { SCRIPT_LIMITS } from "../../../lib/cloud/executors/script.ts";
import { MACHINE_DOMAIN } from "../../../lib/cloud/tenants/hosts.ts";
import { WAITING_MAX } from "../../../lib/cloud/training/training.ts";
import type { Flag } from "../../flags.ts";
import { LIMITS_FLAG } from "../command_context.ts";
import { LISTEN } from "../init.ts";

const MIB = 1024 ** 2;

export const TRAINING_FLAGS = [
  {
    name: "training",
    type: "string",
    default: "embedded",
    value: "LIST",
    env: "SVC_CLOUD_TRAINING",
    help: "The trainers, separated by commas: embedded (the trainer in this program), scripts (training " +
      "scripts, in a sandbox on this computer), kubernetes (the same scripts on a cluster), or none.",
  },
  {
    name: "training-waiting-max",
    type: "int",
    default: WAITING_MAX,
    value: "N",
    help: "Limit of waiting training jobs of one organization.",
  },
  {
    name: "training-running-max",
    type: "int",
    default: 0,
    value: "N",
    help:
      "Limit of running training jobs of one organization per trainer; 0 means half of its capacity, so that " +
      "there is room for others.",
  },
  {
    name: "scripts-network",
    type: "bool",
    default: false,
    help:
      "Let training scripts use the network of this computer, and give them an API key. By default they have neither.",
  },
  {
    name: "scripts-memory-mib",
    type: "int",
    default: SCRIPT_LIMITS.memoryBytes / MIB,
    value: "N",
    help: "Memory limit of a training script.",
  },
  {
    name: "scripts-disk-mib",
    type: "int",
    default: SCRIPT_LIMITS.folderBytes / MIB,
    value: "N",
    help: "Disk limit of a training script, including the packages that it installs.",
  },
  {
    name: "scripts-cpu-hours",
    type: "int",
    default: SCRIPT_LIMITS.cpuSeconds / 3600,
    value: "N",
    help: "Processor time limit of a training script.",
  },
  {
    name: "scripts-without-sandbox",
    type: "bool",
    default: false,
    help:
      "Run training scripts as this user, without sandbox and limits: everybody who can submit one can read and change " +
      "all organizations' data and keys, and leave programs running here.",
  },
  {
    name: "kubernetes-namespace",
    type: "string",
    default: "default",
    value: "NAME",
    help: "The namespace of training jobs on the cluster.",
  },
  {
    name: "kubeconfig",
    type: "string",
    default: "",
    value: "FILE",
    help: "The configuration of the cluster; by default as for kubectl, or as a pod of the cluster.",
  },
  {
    name: "kubernetes-url",
    type: "string",
    default: "",
    value: "URL",
    help: "The address of this program for pods of the cluster; by default the public URL.",
  },
  {
    name: "kubernetes-images",
    type: "string",
    default: "python:3.12=docker.io/library/python:3.12-slim",
    value: "LIST",
    help:
      "The containers that scripts may request, each with its image (KEY=IMAGE), separated by commas; they have " +
      "python3 and pip.",
  },
  {
    name: "kubernetes-registries",
    type: "string",
    default: "",
    value: "LIST",
    help:
      "Prefixes of the images that organizations may register as containers for their scripts, separated " +
      "by commas: registry.example.com/team/. The cluster pulls them. By default there are none.",
  },
  {
    name: "kubernetes-capacity",
    type: "int",
    default: 4,
    value: "N",
    help: "Limit of running jobs on the cluster.",
  },
  {
    name: "kubernetes-cpus",
    type: "int",
    default: 4,
    value: "N",
    help: "Processors that a job on the cluster may use at most.",
  },
  {
    name: "kubernetes-host-users",
    type: "bool",
    default: false,
    help:
      "Let jobs on the cluster share the users of their node. By default they have a user namespace of their own " +
      "(hostUsers: false), which nodes with an old container runtime or kernel refuse.",
  },
] as const satisfies readonly Flag[];

export const INFERENCE_FLAGS = [
  {
    name: "inference-memory-mib",
    type: "int",
    default: 2048,
    value: "N",
    help:
      "Memory limit of a process that runs a model, decodes pictures or answers a query; at most five run at the same time.",
  },
  {
    name: "inference-seconds",
    type: "int",
    default: 30,
    value: "N",
    help: "Time limit of a model for one answer.",
  },
  {
    name: "uploads-without-sandbox",
    type: "bool",
    default: false,
    help:
      "Open uploaded models, pictures and maps without a sandbox, where there is none: a fault in a decoder would let " +
      "everybody who can upload one read what this user can read.",
  },
] as const satisfies readonly Flag[];

export const TRIGGER_FLAGS = [
  {
    name: "smtp",
    type: "string",
    default: "",
    value: "URL",
    env: "SVC_CLOUD_SMTP",
    help: "The mail server for triggers: smtp://USER@HOST:587 (STARTTLS), or smtps://USER@HOST:465.",
  },
  {
    name: "smtp-password-file",
    type: "string",
    default: "",
    value: "FILE",
    env: "SVC_CLOUD_SMTP_PASSWORD_FILE",
    help: "The file with the password of the mail server's user.",
  },
  {
    name: "smtp-from",
    type: "string",
    default: "",
    value: "ADDRESS",
    env: "SVC_CLOUD_SMTP_FROM",
    help: "The sender of mails; left out, the user of the mail server.",
  },
  {
    name: "trigger-allow",
    type: "list",
    default: [],
    value: "HOST",
    env: "SVC_CLOUD_TRIGGER_ALLOW",
    help:
      "A host (hooks.lan), an address or a network (10.1.0.0/16) that webhooks of triggers may reach although it is " +
      "not public. Every organization may then send requests there.",
  },
] as const satisfies readonly Flag[];

export const PROVIDER_FLAGS = [
  {
    name: "oidc-issuer",
    type: "string",
    default: "",
    value: "URL",
    env: "SVC_CLOUD_OIDC_ISSUER",
    help:
      "The OpenID Connect provider at which people may sign in: https://accounts.example.com. There, register " +
      "PUBLIC-URL/account/provider-return as the address to return to.",
  },
  {
    name: "oidc-client",
    type: "string",
    default: "",
    value: "ID",
    env: "SVC_CLOUD_OIDC_CLIENT",
    help: "The id of svc-cloud at that provider.",
  },
  {
    name: "oidc-secret-file",
    type: "string",
    default: "",
    value: "FILE",
    env: "SVC_CLOUD_OIDC_SECRET_FILE",
    help: "The file with the secret of svc-cloud at that provider; left out, svc-cloud is a public client.",
  },
  {
    name: "oidc-name",
    type: "string",
    default: "",
    value: "NAME",
    env: "SVC_CLOUD_OIDC_NAME",
    help: "How the page calls the provider; by default the host of its address.",
  },
  {
    name: "oidc-domain",
    type: "list",
    default: [],
    value: "DOMAIN",
    env: "SVC_CLOUD_OIDC_DOMAIN",
    help:
      "Only people with a verified e-mail address of this domain sign in there. By default everybody may " +
      "whose account is linked, or who is invited.",
  },
] as const satisfies readonly Flag[];

export const SERVE_FLAGS = [
  LISTEN,
  {
    name: "files-before",
    type: "string",
    default: "",
    value: "PLACE",
    help:
      "Where uploaded files were before --files: they stay readable there until `svc-cloud files move` has copied all, " +
      "and what is removed is removed there too.",
  },
  {
    name: "contents-lost",
    type: "bool",
    default: false,
    help:
      "Serve from now on although --files has none of the contents that the database refers to. Otherwise serve " +
      "refuses, because the disk may not be mounted.",
  },
  {
    name: "demo",
    type: "bool",
    default: false,
    help: "Create an example at the first start, as init --example does.",
  },
  {
    name: "public-url",
    type: "list",
    default: [],
    value: "URL",
    env: "SVC_CLOUD_PUBLIC_URL",
    help: "The address that people and machines use, for installers, links and the output of commands; the " +
      "main address first. By default svc-cloud trusts only this computer's own addresses.",
  },
  {
    name: "machine-domain",
    type: "string",
    default: MACHINE_DOMAIN,
    value: "DOMAIN",
    env: "SVC_CLOUD_MACHINE_DOMAIN",
    help:
      "The domain of the machines' names, <part>.<location>.DOMAIN. Published programs dial a machine by its name " +
      "alone: choose a domain of yours whose wildcard leads to svc-cloud; svc-cloud hosts prints the records.",
  },
  {
    name: "organizations",
    type: "string",
    default: "operator",
    value: "WHO",
    help:
      "Who may create organizations by a call: operator (nobody; use svc-cloud org create), or anybody with a " +
      "personal key. Keys of machines never may.",
  },
  {
    name: "tls",
    type: "bool",
    default: false,
    help: "Serve over TLS, with a certificate of the local authority.",
  },
  LIMITS_FLAG,
  {
    name: "metrics-key-file",
    type: "string",
    default: "",
    value: "FILE",
    env: "SVC_CLOUD_METRICS_KEY_FILE",
    help:
      "The file with the key for /metrics (`Authorization: Bearer KEY`); by default metrics.key in the data folder. " +
      "svc-cloud creates it if it is missing.",
  },
  {
    name: "trusted-proxy",
    type: "list",
    default: [],
    value: "ADDRESS",
    env: "SVC_CLOUD_TRUSTED_PROXY",
    help:
      "A reverse proxy in front, by its address or network (127.0.0.1, 10.0.0.0/8): its X-Forwarded-For says who calls, " +
      "for limits, audit and logs.",
  },
  {
    name: "localhost-certificates",
    type: "bool",
    default: false,
    help:
      "Make certificates of machines valid for localhost, too, for programs beside them that connect over TLS.",
  },
  {
    name: "tls-cert",
    type: "string",
    default: "",
    value: "FILE",
    help: "Serve over TLS with this certificate (PEM).",
  },
  {
    name: "tls-key",
    type: "string",
    default: "",
    value: "FILE",
    help: "The key of that certificate (PEM).",
  },
  {
    name: "stun",
    type: "string",
    default: "",
    value: "HOST:PORT",
    help:
      "Answer STUN on this UDP port, such as 0.0.0.0:3478, and tell callers and machines its address, so that they " +
      "learn their public addresses. By default svc-cloud answers no STUN.",
  },
  {
    name: "turn",
    type: "list",
    default: [],
    value: "URL",
    help: "A TURN server that relays for machines that callers cannot reach otherwise, such as " +
      "turn:turn.example.com:3478?transport=udp.",
  },
  {
    name: "turn-secret-file",
    type: "string",
    default: "",
    value: "FILE",
    env: "SVC_CLOUD_TURN_SECRET_FILE",
    help:
      "The file with the secret of the TURN servers (in coturn: static-auth-secret). Each caller gets credentials " +
      "derived from it that are valid for a day.",
  },
  {
    name: "log-file",
    type: "string",
    default: "",
    value: "FILE",
    help: "Write logs to a file with rotation.",
  },
  ...TRAINING_FLAGS,
  ...INFERENCE_FLAGS,
  ...TRIGGER_FLAGS,
  ...PROVIDER_FLAGS,
  { name: "debug", type: "bool", default: false, help: "Write debug-level logs." },
  {
    name: "install",
    type: "bool",
    default: false,
    help: "Install this executable as a systemd service that serves with these flags, and start it.",
  },
] as const satisfies readonly Flag[];
