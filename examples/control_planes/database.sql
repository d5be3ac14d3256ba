-- Makes the role and the database of svc-cloud when PostgreSQL starts for the first time. The role can do nothing else
-- on the server, and no other role but its administrators can connect to the database.
\getenv password POSTGRES_PASSWORD
CREATE ROLE svc_cloud LOGIN PASSWORD :'password';
CREATE DATABASE svc_cloud OWNER svc_cloud;
REVOKE CONNECT ON DATABASE svc_cloud FROM PUBLIC;
