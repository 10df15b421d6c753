-- queries.sql: what people ask. clickhouse-client --param_agent=claude … --queries-file takes one of them.

-- 1. Which hosts have leftovers of an agent? Those that were reported, and whose session has not ended with none left.
SELECT Host, Session, max(Time) AS Last, argMax(Message, Time) AS What
FROM lineage.events
WHERE Code = 'leftovers' AND Agent = {agent:String}
  AND (Host, Session) NOT IN (SELECT Host, Session FROM lineage.events WHERE Code = 'end' AND JSONExtractUInt(Json, 'unmapped', 'lineage', 'receipt', 'left') = 0)
GROUP BY Host, Session ORDER BY Last DESC;

-- 2. What did an end do? Its id is command_uid in the events of its session.
SELECT Host, Session, Time, Code, JSONExtractUInt(Json, 'process', 'pid') AS Pid, JSONExtractString(Json, 'process', 'name') AS Program,
    JSONExtractString(Json, 'unmapped', 'lineage', 'outcome') AS Outcome, JSONExtractString(Json, 'unmapped', 'lineage', 'receipt', 'verdict') AS Verdict
FROM lineage.events WHERE EndId = {end:String} ORDER BY Host, Time, Code;

-- 3. Who held a port yesterday?
SELECT Host, Address, Since, Until, Session, Name, Pid, Program, Args
FROM lineage.ports
WHERE Port = {port:UInt16} AND Since < {until:DateTime} AND Until >= {since:DateTime} ORDER BY Since;

-- 4. Which sessions did not end clean?
SELECT Host, Session, Name, Agent, Ended, Reason, Verdict, Left, Error
FROM lineage.sessions
WHERE Verdict != 'clean' AND Ended >= {since:DateTime} ORDER BY Ended DESC;

-- 5. What did a session run, in which order?
SELECT Began, Ended, Pid, Creator, Program, Args, ExitCode, Error
FROM lineage.programs WHERE Host = {host:String} AND Session = {session:String} ORDER BY Began, Pid;

-- 6. Where was a program run, and by whom?
SELECT Host, Session, Name, Agent, User, Began, Args
FROM lineage.programs WHERE Path LIKE {path:String} AND Began >= {since:DateTime} ORDER BY Began DESC LIMIT 100;

-- 7. Which sessions are alive? Their spans come when they end; logs come at once.
SELECT Host, Session, any(JSONExtractString(Json, 'unmapped', 'lineage', 'session', 'name')) AS Name, min(Time) AS Began
FROM lineage.events WHERE Session != '' GROUP BY Host, Session HAVING countIf(Code = 'end') = 0 ORDER BY Began;

-- 8. What did agents do to processes outside of their sessions?
SELECT Time, Host, Session, Agent, Message FROM lineage.events WHERE Code = 'crossing' AND Time >= {since:DateTime} ORDER BY Time DESC;

-- 9. What does each agent cost: sessions, programs, processes that had to be killed?
SELECT Agent, uniqExact(Host) AS Hosts, count() AS Sessions, sum(Started) AS Processes, sum(Killed) AS Killed, sum(Left) AS Left
FROM lineage.sessions WHERE Began >= {since:DateTime} GROUP BY Agent ORDER BY Processes DESC;

-- 10. Which hosts are silent, lose events, or are degraded?
SELECT Host, max(Time) AS Last, countIf(Code = 'lost') AS Lost, argMaxIf(Message, Time, Code IN ('degraded', 'breaker')) AS Health
FROM lineage.events GROUP BY Host HAVING Last < now() - INTERVAL 1 HOUR OR Lost > 0 OR Health != '' ORDER BY Last;
